"""Signals that whoever starts the tests may have turned off."""

import signal


def heed_signals() -> None:
    """Undoes what nohup and & do: they ignore these signals, and every tool that is started would, too."""
    for signum in (signal.SIGINT, signal.SIGQUIT, signal.SIGHUP):
        if signal.getsignal(signum) is signal.SIG_IGN:
            signal.signal(signum, signal.default_int_handler if signum == signal.SIGINT else signal.SIG_DFL)

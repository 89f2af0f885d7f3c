"""Logs that agents keep of their sessions → results."""

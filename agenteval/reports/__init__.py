"""Anything → something to read: each package here is a kind of report, each file in it a form of that kind."""

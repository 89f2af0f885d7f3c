"""Figures and rows → text: each package here is a kind of report, each file in it a form of that kind."""

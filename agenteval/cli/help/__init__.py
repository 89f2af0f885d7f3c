"""The page that --help shows."""

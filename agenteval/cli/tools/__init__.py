"""One file per executable ae-<verb>."""

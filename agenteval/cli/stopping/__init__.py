"""--stop-when-known, of ae-capture and ae-trials."""

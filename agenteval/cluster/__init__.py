"""Work that is spread over machines: shares of a run, merging them, and a Ray cluster."""

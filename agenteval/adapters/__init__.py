"""Raw lines of an agent → trajectory, output, usage: described by an adapter schema."""

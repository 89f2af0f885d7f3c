"""The Wikipedia evaluation: agent, wiki, score, criteria."""

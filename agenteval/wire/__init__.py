"""What a record, an adapter schema and a report are: types, no behaviour."""

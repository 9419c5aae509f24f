"""The order story: a workflow that reserves, charges, waits for a person and ships, or undoes what it did."""

"""The commands, by the thing that they act on."""

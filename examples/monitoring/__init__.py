"""Monitoring: each host has an agent that reports its figures, and a missing report raises an incident."""

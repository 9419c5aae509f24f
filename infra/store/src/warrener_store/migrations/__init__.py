"""The history of the tables. Each step is named `NNNN_pre_…` (safe while the code before it still runs) or
`NNNN_post_…` (run once that code is gone), says what it is for, and can be taken back."""

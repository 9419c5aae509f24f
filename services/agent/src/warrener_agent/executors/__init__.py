"""Executors, which run one attempt as a coroutine, a thread, a child process or a program."""

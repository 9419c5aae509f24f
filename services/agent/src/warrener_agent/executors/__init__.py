"""Where one attempt runs: a coroutine, a thread, a child process or a program."""

"""Live processes, through /proc and ptrace.

`process_hold.py` holds a process. Its guard is forked before anything is loaded, has a session of its own and blocks
every signal, so that what ends or stops arenascope leaves it running. Its own end lets the process go: the kernel
detaches what a tracer has traced, and where it stopped the process by SIGSTOP, sends SIGCONT. After Ctrl-Z a look
starts again; a hold that ended too early is never shown. A process can notice time, and EINTR from the calls that
signal(7) lists as not restarted after a stop.

`kept_process.py` keeps what is read while the process is held, and answers from it once it runs on. What was not kept
is never read late: the look begins anew.

`thread_calls.py` lets single threads run, and `injection.py` makes one call a function. A thread is made to call only
where it can be put back: no shadow stack, no seccomp filter, no restartable sequence, not at a signal's delivery, in
no system call that changes the signal mask meanwhile, on a stack whose end is known. All that brings it back is
written below its stack, beyond the red zone, before its registers change: the function returns into `tkill`, and
after that lies a signal frame of the kernel's form, from which `rt_sigreturn` restores all registers if no guard is
left. What differs by machine is a `Processor`. On aarch64 a thread that sleeps for a length of time is made to call
only where the kernel wrote the rest of that time to memory; threads with a guarded stack, in streaming mode or with
wide vectors in use are left alone.
"""

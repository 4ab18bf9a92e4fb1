/** The signals with which a terminal or a supervisor ends a process. */
export const TERMINATION_SIGNALS = ['SIGTERM', 'SIGINT', 'SIGHUP'] as const;

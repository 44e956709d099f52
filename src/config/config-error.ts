/** One thing to put right before the server can start, or (a warning) one to know. */
export interface ConfigProblem {
  readonly severity: 'error' | 'warning'
  /** Absolute path of the file to edit; absent for flags and environment variables. */
  readonly file?: string
  /** Where in it: `server.port`, a tool id, `COLLET_KEY`, or a line such as `12:5`. */
  readonly where?: string
  /** What was expected, what came, what to do. Never holds a key or secret. */
  readonly message: string
}

/** A configuration that cannot be used: every problem found, not the first one. */
export class ConfigError extends Error {
  override readonly name = 'ConfigError'
  readonly problems: readonly ConfigProblem[]

  constructor(problems: readonly ConfigProblem[], options?: { readonly cause?: unknown }) {
    super(problems.map(describeProblem).join('\n'), options)
    this.problems = problems
  }
}

export function describeProblem({ file, where, message }: ConfigProblem): string {
  return [file, where, message].filter((part) => part !== undefined && part !== '').join(': ')
}

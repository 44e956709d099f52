/** One thing the doctor looked at. */
export interface Check {
  readonly level: 'ok' | 'warn' | 'fail'
  /** `node`, `config`, `store` … */
  readonly subject: string
  readonly message: string
  /** What to do; absent when all is well. */
  readonly advice?: string
}

export function ok(subject: string, message: string): Check {
  return { level: 'ok', subject, message }
}

export function warn(subject: string, message: string, advice: string): Check {
  return { level: 'warn', subject, message, advice }
}

export function fail(subject: string, message: string, advice: string): Check {
  return { level: 'fail', subject, message, advice }
}

/** Text of whatever was thrown. */
export function reasonOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error)
}

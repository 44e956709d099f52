/** One line: a text alone, or fields with a text. */
export interface WriteLine {
  (message: string): void
  (fields: object, message?: string): void
}

/** The part of a structured logger that core and tools use; pino has this shape. */
export interface Logger {
  readonly debug: WriteLine
  readonly info: WriteLine
  readonly warn: WriteLine
  readonly error: WriteLine
}

export const SILENT_LOGGER: Logger = { debug() {}, info() {}, warn() {}, error() {} }

/** The same log with fields of its own on every line. */
export function boundLogger(log: Logger, bound: object): Logger {
  const write =
    (level: keyof Logger): WriteLine =>
    (said: object | string, message?: string) =>
      typeof said === 'string'
        ? log[level](bound, said)
        : log[level]({ ...bound, ...fieldsOf(said) }, message)
  return { debug: write('debug'), info: write('info'), warn: write('warn'), error: write('error') }
}

/** An error's own fields are not enumerable, so spread on its own it would say nothing. */
function fieldsOf(said: object): object {
  return said instanceof Error ? { err: said } : said
}

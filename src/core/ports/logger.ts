/** The part of a structured logger that core and tools use; pino has this shape. */
export interface Logger {
  debug(fields: object, message?: string): void
  info(fields: object, message?: string): void
  warn(fields: object, message?: string): void
  error(fields: object, message?: string): void
}

export const SILENT_LOGGER: Logger = { debug() {}, info() {}, warn() {}, error() {} }

/** The same log with fields of its own on every line. */
export function boundLogger(log: Logger, bound: object): Logger {
  return {
    debug: (fields, message) => log.debug({ ...bound, ...fields }, message),
    info: (fields, message) => log.info({ ...bound, ...fields }, message),
    warn: (fields, message) => log.warn({ ...bound, ...fields }, message),
    error: (fields, message) => log.error({ ...bound, ...fields }, message),
  }
}

/** The part of a structured logger that core and tools use; pino has this shape. */
export interface Logger {
  debug(fields: object, message?: string): void
  info(fields: object, message?: string): void
  warn(fields: object, message?: string): void
  error(fields: object, message?: string): void
}

export const SILENT_LOGGER: Logger = { debug() {}, info() {}, warn() {}, error() {} }

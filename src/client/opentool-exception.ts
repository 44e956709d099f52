import type { JsonValue } from '#core/json'
import type { ExceptionName, ReadException } from '#protocols/opentool/codec-client-answer'
import { CallFailure } from './call-failure.ts'

/** What the OpenTool client specification calls this failure: the cause of a `CallFailure` (OTS-64). */
export class OpenToolException extends Error {
  override readonly name: ExceptionName
  readonly code: number
  readonly data: JsonValue | undefined

  constructor({ name, code, message, data }: ReadException, cause?: unknown) {
    super(message, cause === undefined ? undefined : { cause })
    this.name = name
    this.code = code
    this.data = data
  }

  toJson(): { readonly code: number; readonly message: string } {
    return { code: this.code, message: this.message }
  }
}

/** The specification's name, code and text of a failure; `undefined` when it has none, as for an abort. */
export function exceptionOf(failure: unknown): OpenToolException | undefined {
  return failure instanceof CallFailure && failure.cause instanceof OpenToolException
    ? failure.cause
    : undefined
}

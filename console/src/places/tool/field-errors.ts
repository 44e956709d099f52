import type { Answer } from './call/call-wire.ts'
import { isRecord } from './tool-data.ts'

/**
 * The server's messages by field: `address/city`. The server sends them by parameter; a message about a nested value begins with a
 * JSON Pointer to it.
 */
export function fieldErrorsOf(answer: Pick<Answer, 'body'> | undefined): ReadonlyMap<string, string> {
  const body = answer?.body
  const messages = isRecord(body) && isRecord(body.parameter_errors) ? body.parameter_errors : {}
  const found = new Map<string, string>()
  for (const [parameter, text] of Object.entries(messages)) {
    if (typeof text !== 'string') continue
    for (const sentence of text.split('; ')) {
      const [, pointer = '', text = sentence] = /^(\/[^:\s]*): (.*)$/s.exec(sentence) ?? []
      const path = `${parameter}${pointer.replaceAll('~1', '/').replaceAll('~0', '~')}`
      const before = found.get(path)
      found.set(path, before === undefined ? text : `${before}; ${text}`)
    }
  }
  return found
}

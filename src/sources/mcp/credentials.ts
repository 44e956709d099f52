import { hash } from 'node:crypto'
import type { JsonObject } from '#core/json'
import type { ToolContext } from '#core/tool'
import { isWireObject, textOf } from './wire.ts'

export interface Credentials {
  readonly headers: Readonly<Record<string, string>>
  /** Tells credentials apart; a connection is never shared between them (§7.3). Empty when there are none. */
  readonly fingerprint: string
}

/** What the accepted definition says a call brings along: the broker's token, the vault's secrets. */
export function readCredentials(binding: JsonObject, context: ToolContext): Credentials {
  const headers: Record<string, string> = {}
  const provider = textOf(binding.authorization)
  if (provider !== undefined) headers.authorization = `Bearer ${context.token(provider).reveal()}`
  if (isWireObject(binding.secretHeaders))
    for (const [name, id] of Object.entries(binding.secretHeaders))
      if (typeof id === 'string') headers[name.toLowerCase()] = context.secret(id).reveal()
  const isEmpty = Object.keys(headers).length === 0
  return { headers, fingerprint: isEmpty ? '' : hash('sha256', JSON.stringify(headers), 'hex') }
}

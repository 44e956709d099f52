import { ToolError } from '#core/errors'
import type { ToolContext } from '#core/tool'
import type { BoundCredential } from './binding.ts'
import type { RequestParts } from './build-request.ts'
import { encodeStrictly, type Pair } from './serialize-value.ts'

const FORMS = {
  plain: (text) => text,
  bearer: (text) => `Bearer ${text}`,
  // RFC 7617: the secret holds `user:password`.
  basic: (text) => `Basic ${Buffer.from(text, 'utf8').toString('base64')}`,
} as const satisfies Record<BoundCredential['form'], (text: string) => string>

/** Puts each credential where its scheme says; the texts that were sent, so that no answer repeats them. */
export function applyCredentials(
  credentials: readonly BoundCredential[],
  { query, headers, cookies }: RequestParts,
  context: Pick<ToolContext, 'token' | 'secret'>,
): readonly string[] {
  return credentials.flatMap((credential) => {
    const secret = credential.from === 'token' ? context.token(credential.id) : context.secret(credential.id)
    const text = secret.reveal()
    const sent = FORMS[credential.form](text)
    if (credential.in === 'header') setCredential(headers, credential, sent)
    else
      replace(credential.in === 'query' ? query : cookies, [
        encodeStrictly(credential.name),
        encodeStrictly(sent),
      ])
    return [
      text,
      sent,
      encodeStrictly(sent),
      ...(credential.form === 'basic' ? [sent.slice('Basic '.length)] : []),
    ]
  })
}

function setCredential(headers: Headers, { name, id }: BoundCredential, text: string): void {
  if (!/^[\x20-\x7e]+$/.test(text))
    throw new ToolError(`The credential "${id}" holds characters that headers cannot carry.`)
  headers.set(name, text)
}

function replace(pairs: Pair[], pair: Pair): void {
  const others = pairs.filter(([name]) => name !== pair[0])
  pairs.splice(0, pairs.length, ...others, pair)
}

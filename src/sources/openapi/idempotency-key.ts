import { hash } from 'node:crypto'
import type { BoundIdempotency } from './binding.ts'

/** Our key for the one effect of a call, in the form that the service takes (rule 27, OWP-93). */
export function idempotencyKey(effectKey: string, { form, maxLength }: BoundIdempotency): string {
  const text = form === 'uuid' ? asUuid(effectKey) : effectKey
  if (maxLength === undefined || text.length <= maxLength) return text
  // A digest cut to the length keeps all its letters' worth; the start of the key may not.
  return hash('sha256', effectKey, 'base64url').slice(0, maxLength)
}

/** RFC 9562 version 8: our own bits. */
function asUuid(text: string): string {
  const digits = hash('sha256', text, 'hex')
  const variant = ((Number.parseInt(digits.charAt(16), 16) & 0x3) | 0x8).toString(16)
  const parts = [
    digits.slice(0, 8),
    digits.slice(8, 12),
    `8${digits.slice(13, 16)}`,
    variant + digits.slice(17, 20),
  ]
  return [...parts, digits.slice(20, 32)].join('-')
}

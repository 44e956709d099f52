import { timingSafeEqual } from 'node:crypto'

/** Takes as long for a wrong signature as for a right one. */
export function isSameSignature(sent: string | undefined, made: string): boolean {
  const left = Buffer.from(sent ?? '')
  const right = Buffer.from(made)
  return left.length === right.length && timingSafeEqual(left, right)
}

import { hash, timingSafeEqual } from 'node:crypto'
import { canonicalJson, type JsonObject } from './json.ts'

/** Digest of what a definition promises: a claim pins it, so that another definition is never run in its place (rule 5). */
export function definitionHash(definition: JsonObject): string {
  return hash('sha256', canonicalJson(definition), 'base64url')
}

/** Eight hexadecimal digits that tell texts apart, where a name has no room for more. */
export function shortHash(text: string): string {
  return hash('sha256', text, 'hex').slice(0, 8)
}

/** Compares all of both, however early they differ, so that time tells nothing about the one that is kept (OTC-100). */
export function isSameSecret(given: string, kept: string): boolean {
  const [left, right] = [Buffer.from(given), Buffer.from(kept)]
  return left.length === right.length && timingSafeEqual(left, right)
}

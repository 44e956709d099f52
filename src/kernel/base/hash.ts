import { hash, randomBytes, timingSafeEqual } from 'node:crypto'
import { canonicalJson, type JsonObject } from './json.ts'

/**
 * Plain digests, unguessable ids and comparison of secrets. Definitions are pinned by their hash, and a short hash distinguishes
 * equal names. Keyed digests, which hide callers' texts, belong to the store (`KernelStore.digest`).
 */

/** Digest of a definition. A claim pins this digest, so that another definition is never run instead (rule 5). */
export function definitionHash(definition: JsonObject): string {
  return hash('sha256', canonicalJson(definition), 'base64url')
}

/** Eight hexadecimal digits, for names that would otherwise be equal. */
export function shortHash(text: string): string {
  return hash('sha256', text, 'hex').slice(0, 8)
}

/** Compares in constant time, so that timing reveals nothing about the stored secret (OTC-100). */
export function isSameSecret(candidate: string, stored: string): boolean {
  const [left, right] = [Buffer.from(candidate), Buffer.from(stored)]
  return left.length === right.length && timingSafeEqual(left, right)
}

const SECRET_ID_BYTES = 24

/** An unguessable, URL-safe id without a leading dash, because commands would read `-…` as an option. */
export function newSecretId(): string {
  return randomBytes(SECRET_ID_BYTES).toString('base64url').replace(/^-/, '_')
}

import { hash } from 'node:crypto'
import { canonicalJson } from './canonical-json.ts'
import type { JsonObject } from './json.ts'

/** Digest of what a definition promises: a claim pins it, so that another definition is never run in its place (rule 5). */
export function definitionHash(definition: JsonObject): string {
  return hash('sha256', canonicalJson(definition), 'base64url')
}

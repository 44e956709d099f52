import { hash } from 'node:crypto'
import type { IdentifiedCall } from './identified-call.ts'
import { redactText } from './redact-secrets.ts'

/** Tells equal inputs without telling them: hex SHA-256 of the canonical input, its call's credentials cut out (OWP-52). */
export function argsHash({ inputJson, request }: IdentifiedCall): string {
  return hash('sha256', redactText(inputJson, request), 'hex')
}

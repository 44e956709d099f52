import { hash } from 'node:crypto'

/** The API key of whoever says yes, which driver and server know without telling each other. */
export function approverKeyOf(apiKey: string): string {
  return hash('sha256', `approver ${apiKey}`, 'hex')
}

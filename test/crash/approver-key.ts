import { hash } from 'node:crypto'

/** The API key of the approver; driver and server both derive it. */
export function approverKeyOf(apiKey: string): string {
  return hash('sha256', `approver ${apiKey}`, 'hex')
}

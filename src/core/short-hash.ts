import { hash } from 'node:crypto'

/** Eight hexadecimal digits that tell texts apart, where a name has no room for more. */
export function shortHash(text: string): string {
  return hash('sha256', text, 'hex').slice(0, 8)
}

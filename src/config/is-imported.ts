import type { ParsedConfig } from './config-schema.ts'

/** Whether a tool may come from a source: what that offers is not known before it is asked. */
export function isImported(base: string, sources: ParsedConfig['sources']): boolean {
  return Object.hasOwn(sources, base.slice(0, base.indexOf('.')))
}

import { DefinitionError } from './finding.ts'
import type { PrepareOptions } from './prepare-tool.ts'
import { type LaxerOptions, prepareTools } from './prepare-tools.ts'
import type { Tool } from './tool.ts'

/** Tools written in code, ready to serve; throws one error with every finding otherwise. */
export function requireTools(
  definitions: readonly unknown[],
  options: Omit<PrepareOptions, 'file' | 'moduleHash'> & LaxerOptions = {},
): readonly Tool[] {
  const prepared = prepareTools(
    definitions.map((definition) => ({ definition })),
    options,
  )
  if (prepared.ok) return prepared.tools
  throw new DefinitionError(prepared.findings)
}

import type { Discovery, Source } from '#core/ports/source'
import type { PinnedTool } from './pinned-tool.ts'

/** What the sources need of the pins. */
export interface DefinitionPins {
  accepted(sourceKey: string): Promise<readonly PinnedTool[]>
  /** Native names of everything that was ever pinned, served or not. */
  names(sourceKey: string): Promise<readonly string[]>
  /** Takes note of what is offered now: pins at first sight, quarantines every later change. */
  observe(source: Source, discovery: Discovery): Promise<Observed>
}

export interface Observed {
  /** Whether what is served may be another than before. */
  readonly changed: boolean
  /** Changes that wait for an operator. */
  readonly waiting: number
}

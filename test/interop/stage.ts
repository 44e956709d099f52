import { rmSync } from 'node:fs'
import { CatalogChanges } from '#kernel/tool/catalog-changes'
import { requireTools } from '#kernel/tool/prepare-tools'
import { startServer } from '#server/start-server'
import { MCP_OPTIONS } from '#sources/mcp/options'
import { suiteTools } from '../conformance/mcp-tools.ts'
import { egressTo, sqliteSettings } from '../test-settings.ts'
import { startLegacyReference } from './reference-legacy.ts'
import { startModernReference } from './reference-modern.ts'
import type { SuiteRevision } from './suite-run.ts'

/*
 * The servers that the scoreboard compares: both reference servers, Collet in front of them, and Collet with its own tools.
 * Collet serves each reference server in a toolset with native names, because the suite calls tools and prompts by name.
 */

/** The ways to a server, in the order of the columns. */
export const WAYS = ['direct', 'through', 'crossed', 'own'] as const
export type Way = (typeof WAYS)[number]

export interface Stage {
  /** The address at which the suite of a revision reaches a server. */
  urlOf(revision: SuiteRevision, way: Way): string
  close(): Promise<void>
}

export async function openStage(): Promise<Stage> {
  const [legacy, modern] = await Promise.all([startLegacyReference(), startModernReference()])
  const settings = sqliteSettings()
  const source = (url: string, revision: string) => MCP_OPTIONS.parse({ type: 'mcp', url, revision })
  const native = { exclude: [], names: 'native' } as const
  const gateway = await startServer(
    {
      ...settings,
      egress: egressTo('127.0.0.1'),
      sources: new Map([
        ['Old', source(legacy.url, 'legacy')],
        ['New', source(modern.url, 'modern')],
      ]),
      toolsets: new Map([
        ['old', { include: ['source:Old'], ...native }],
        ['new', { include: ['source:New'], ...native }],
      ]),
    },
    { graceMs: 0 },
  )
  await gateway.sourceRead('Old')
  await gateway.sourceRead('New')
  const ownSettings = sqliteSettings()
  const catalogChanges = new CatalogChanges()
  const tools = requireTools(suiteTools(catalogChanges), { describeParameters: false })
  const own = await startServer({ ...ownSettings, tools }, { graceMs: 0, catalogChanges })
  return {
    urlOf(revision, way) {
      if (way === 'own') return `${own.url}/mcp`
      const isNew = revision === '2026-07-28'
      if (way === 'direct') return isNew ? modern.url : legacy.url
      return `${gateway.url}/mcp/${isNew === (way === 'through') ? 'new' : 'old'}`
    },
    async close() {
      await Promise.all([gateway.close(), own.close()])
      await Promise.all([legacy.close(), modern.close()])
      for (const { dataFolder } of [settings, ownSettings]) rmSync(dataFolder, { recursive: true })
    },
  }
}

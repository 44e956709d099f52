import { describe, expect, it } from 'vitest'
import { parseConfig } from '#config/load'
import { readBlocks } from './markdown-blocks.ts'

describe('"Limits and budgets" of docs/configuration.md', () => {
  it('shows a config that is accepted unchanged', () => {
    const block = readBlocks('docs/configuration.md').find(({ text }) => text.includes('budgets: ['))
    const body = /export default defineConfig\((.*)\)/s.exec(block?.text ?? '')?.[1] ?? ''
    const config: unknown = new Function(`return (${body})`)()
    const { limits, budgets } = parseConfig(config, 'collet.config.ts')
    expect(limits.perPrincipal).toEqual({ callsPerMinute: 600, burst: 60, concurrent: 20 })
    expect(budgets.map(({ windowMs }) => windowMs)).toEqual([3_600_000, 86_400_000])
  })
})

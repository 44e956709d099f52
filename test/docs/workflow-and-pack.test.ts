import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { pathToFileURL } from 'node:url'
import { describe, expect, it, onTestFinished, vi } from 'vitest'
import { SYSTEM_CLOCK } from '#kernel/base/clock'
import { SILENT_LOGGER } from '#kernel/base/logger'
import { createPackSource } from '#sources/pack/index'
import { PACK_OPTIONS } from '#sources/pack/options'
import { contextFor } from '../sources/pack-context.ts'
import { readBlocks } from './markdown-blocks.ts'

const LIMIT_MS = 40_000

/** Inside this package, so that documented code can import it by name. */
function makeFolder(): string {
  const folder = mkdtempSync(join(resolve(import.meta.dirname), 'tmp-'))
  onTestFinished(() => rmSync(folder, { recursive: true }))
  return folder
}

describe('docs/sources/workflow.md', () => {
  it('shows a workflow that behaves as described', { timeout: LIMIT_MS }, async () => {
    const block = readBlocks('docs/sources/workflow.md').find(({ language }) => language === 'ts')
    const text = block?.text ?? ''
    const expected = [...text.matchAll(/\/\/ → (.*)$/gm)].map(([, shown = '']) => shown)
    expect(expected.length).toBeGreaterThan(3)
    const file = join(makeFolder(), 'order.ts')
    writeFileSync(file, text)
    const printed: string[] = []
    const log = vi.spyOn(console, 'log').mockImplementation((line) => printed.push(String(line)))
    onTestFinished(() => log.mockRestore())
    await import(pathToFileURL(file).href)
    expect(printed).toEqual(expected)
  })
})

describe('docs/sources/pack.md', () => {
  it('shows a pack and a configuration that work', { timeout: LIMIT_MS }, async () => {
    const [code, manifest, config] = readBlocks('docs/sources/pack.md').map(({ text }) => text)
    const folder = makeFolder()
    mkdirSync(join(folder, 'packs/weather'), { recursive: true })
    writeFileSync(join(folder, 'packs/weather/index.js'), code ?? '')
    writeFileSync(join(folder, 'packs/weather/pack.json'), manifest ?? '')
    writeFileSync(join(folder, 'collet.config.ts'), config ?? '')
    const { default: written } = await import(pathToFileURL(join(folder, 'collet.config.ts')).href)
    const options = PACK_OPTIONS.parse(written.sources.Weather)
    const refuse = () => Promise.reject(new Error('no fetch here'))
    const services = { fetch: refuse, clock: SYSTEM_CLOCK, log: SILENT_LOGGER, folder }
    const source = createPackSource('Weather', options, services)
    onTestFinished(() => source.close())
    const { tools } = await source.discover(new AbortController().signal)
    expect(tools).toMatchObject([{ nativeName: 'Wind', policy: { safetyTier: 'read' } }])
    const call = { nativeName: 'Wind', binding: {}, input: { place: 'Kiel' }, context: contextFor() }
    expect(await source.invoke(call)).toBe('A breeze in Kiel.')
  })
})

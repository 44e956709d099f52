import { globSync, readFileSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { gzipSync } from 'node:zlib'
import { describe, expect, it } from 'vitest'

const BUILT = join(import.meta.dirname, '../../dist/console')
const MAX_FIRST_LOAD_KB = 250
const MAX_APPROVAL_LOAD_KB = 125
const MAX_ON_DISK_MB = 2

interface Chunk {
  readonly file: string
  readonly isEntry?: boolean
  readonly imports?: readonly string[]
  readonly dynamicImports?: readonly string[]
}

const manifest: Readonly<Record<string, Chunk>> = JSON.parse(
  readFileSync(join(BUILT, 'manifest.json'), 'utf8'),
)

/** The chunk and everything that it imports statically. */
function loadedWith(name: string, seen = new Set<string>()): ReadonlySet<string> {
  if (seen.has(name)) return seen
  seen.add(name)
  for (const next of manifest[name]?.imports ?? []) loadedWith(next, seen)
  return seen
}

function gzippedKb(names: Iterable<string>): number {
  const files = new Set([...names].map((name) => manifest[name]?.file ?? ''))
  const sizes = [...files].map((file) => gzipSync(readFileSync(join(BUILT, file)), { level: 9 }).length)
  return sizes.reduce((sum, size) => sum + size, 0) / 1000
}

describe('the built console', () => {
  it('loads little at first, whichever page is opened', () => {
    const common = loadedWith('index.html')
    const places = manifest['index.html']?.dynamicImports ?? []
    expect(places.length).toBeGreaterThanOrEqual(8)
    for (const place of places) {
      const kb = gzippedKb([...common, ...loadedWith(place)])
      process.stdout.write(
        `first load of ${place.replace('src/places/', '')}: ${kb.toFixed(1)} kB of script, gzipped\n`,
      )
      expect(kb, place).toBeLessThanOrEqual(MAX_FIRST_LOAD_KB)
    }
  })

  it('loads little for the page behind an approval link', () => {
    expect(gzippedKb(loadedWith('approval.html'))).toBeLessThanOrEqual(MAX_APPROVAL_LOAD_KB)
  })

  it('is small on the disk, and contains no source maps', () => {
    const files = globSync('**/*', { cwd: BUILT }).filter((name) => statSync(join(BUILT, name)).isFile())
    const bytes = files.reduce((sum, name) => sum + statSync(join(BUILT, name)).size, 0)
    process.stdout.write(`dist/console: ${(bytes / 1e6).toFixed(2)} MB in ${files.length} files\n`)
    expect(bytes / 1e6).toBeLessThanOrEqual(MAX_ON_DISK_MB)
    expect(files.filter((name) => name.endsWith('.map'))).toEqual([])
  })

  it('uses no colours besides its tokens, and no inline styles or scripts', () => {
    const sources = globSync('console/**/*.{css,tsx,ts,html}', { cwd: join(BUILT, '../..') })
    const texts = sources.map((file) => ({ file, text: readFileSync(join(BUILT, '../..', file), 'utf8') }))
    const coloured = texts.filter(
      ({ file, text }) => !file.endsWith('tokens.css') && /#[0-9a-f]{3,8}\b(?![-\w])/i.test(text),
    )
    expect(coloured.map(({ file }) => file)).toEqual([])
    for (const name of ['index.html', 'approval.html'])
      expect(readFileSync(join(BUILT, name), 'utf8')).not.toMatch(
        /<style|style=|<script(?![^>]*\bsrc=)|\son\w+=/,
      )
  })

  it('contains the licences of its dependencies', () => {
    const text = readFileSync(join(BUILT, 'licenses.md'), 'utf8')
    for (const name of ['react', 'react-dom', '@tanstack/react-router', '@ariakit/react'])
      expect(text).toContain(name)
  })
})

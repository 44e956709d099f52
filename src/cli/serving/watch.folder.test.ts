import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { watchFolder } from './watch.ts'

describe('watchFolder', () => {
  let folder = ''
  let end = () => {}
  let changes: string[] = []
  let wake = () => {}

  beforeEach(() => {
    folder = mkdtempSync(join(tmpdir(), 'collet-'))
    for (const name of ['tools', 'node_modules', '.collet']) mkdirSync(join(folder, name))
    changes = []
    end = watchFolder(folder, (file) => {
      changes.push(file)
      wake()
    })
  })
  afterEach(() => {
    end()
    rmSync(folder, { recursive: true })
  })

  function changed(): Promise<void> {
    return new Promise((resolve) => {
      wake = resolve
    })
  }

  it('reports a burst of changes once, also in subfolders', async () => {
    const seen = changed()
    for (const text of ['1', '2', '3']) writeFileSync(join(folder, 'tools', 'a.ts'), text)
    await seen
    expect(changes).toEqual([join('tools', 'a.ts')])
  })

  it('leaves out packages, the data folder and other files', async () => {
    writeFileSync(join(folder, 'node_modules', 'x.js'), '')
    writeFileSync(join(folder, '.collet', 'x.json'), '')
    writeFileSync(join(folder, 'notes.txt'), '')
    const seen = changed()
    writeFileSync(join(folder, 'collet.config.ts'), '')
    await seen
    expect(changes).toEqual(['collet.config.ts'])
  })

  it('watches folders that are created later', async () => {
    const first = changed()
    mkdirSync(join(folder, 'more'))
    writeFileSync(join(folder, 'first.ts'), '')
    await first
    const second = changed()
    writeFileSync(join(folder, 'more', 'b.ts'), '')
    await second
    expect(changes.at(-1)).toBe(join('more', 'b.ts'))
  })
})

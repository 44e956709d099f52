import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, describe, expect, it } from 'vitest'
import { loadFile } from './index.ts'

const folder = mkdtempSync(join(tmpdir(), 'collet-opentool-'))
afterAll(() => rmSync(folder, { recursive: true }))

function write(name: string, content: string | Uint8Array): string {
  const path = join(folder, name)
  writeFileSync(path, content)
  return path
}

describe('loadFile', () => {
  it('OTS-25: loads a document with its references', async () => {
    const document = await loadFile(new URL('../../../vectors/opentool-calc.json', import.meta.url))
    expect(document.info).toMatchObject({ title: 'Calculator', version: '1.2.3' })
    expect(document.functions[0]?.parameters[0]?.schema).toEqual({ $ref: '#/schemas/Num' })
  })

  it('OTS-01: skips a byte order mark and refuses bytes that are not UTF-8', async () => {
    const text = '\uFEFF{"opentool":"1.1.0","info":{"title":"t","version":"1"},"functions":[]}'
    expect((await loadFile(write('bom.json', text))).functions).toEqual([])
    await expect(
      loadFile(write('latin1.json', Buffer.from(text.replace('"t"', '"é"'), 'latin1'))),
    ).rejects.toThrow('UTF-8')
  })

  it('OTS-25: rejects with all findings, or with the error of the file system', async () => {
    await expect(loadFile(write('empty.json', '{}'))).rejects.toMatchObject({ findings: [{}, {}, {}] })
    await expect(loadFile(join(folder, 'none.json'))).rejects.toMatchObject({ code: 'ENOENT' })
    await expect(
      loadFile(
        write(
          'lenient.json',
          '{"opentool":"1.1.0","info":{"title":"t","version":"1"},"functions":[{"name":"f"}]}',
        ),
        { mode: 'lenient' },
      ),
    ).resolves.toMatchObject({ functions: [{ parameters: [] }] })
  })

  it('stops if its signal is aborted', async () => {
    const stopped = loadFile(write('stop.json', '{}'), { signal: AbortSignal.abort() })
    await expect(stopped).rejects.toMatchObject({ name: 'AbortError' })
  })
})

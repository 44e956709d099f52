import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { describe, expect, it, onTestFinished } from 'vitest'
import { createGateway } from '#server/create-gateway'
import { type FromOpenToolOptions, fromOpenTool, type OpenToolHandlers } from './from-document.ts'

const NUMBER = { $ref: '#/schemas/Number' }

const DOCUMENT = {
  opentool: '1.1.0',
  info: { title: 'my sums', version: '2.1.0' },
  functions: [
    {
      name: 'add-all',
      description: 'Adds two numbers.',
      parameters: [
        { name: 'a', description: 'Left.', schema: NUMBER, required: true },
        { name: 'b', schema: NUMBER, required: true },
      ],
      return: { name: 'sum', schema: NUMBER },
    },
    { name: 'ring', description: 'Rings.', parameters: [] },
  ],
  schemas: { Number: { type: 'number' } },
}

const HANDLERS: OpenToolHandlers = {
  'add-all': ({ a, b }) => Number(a) + Number(b),
  ring: { run: () => undefined, policy: { safetyTier: 'read' } },
}

async function open(options: FromOpenToolOptions = {}) {
  const folder = mkdtempSync(join(tmpdir(), 'collet-opentool-'))
  const tools = fromOpenTool(JSON.stringify(DOCUMENT), HANDLERS, options)
  const gateway = await createGateway({ tools, store: 'memory:' }, { folder })
  onTestFinished(async () => {
    await gateway.close()
    rmSync(folder, { recursive: true })
  })
  return gateway
}

describe('tools from an OpenTool document', () => {
  it('run the handlers of its functions', async () => {
    const gateway = await open()
    expect(await gateway.call('MySums.add_all', { a: 1, b: 2 })).toMatchObject({ ok: true, value: 3 })
    expect(await gateway.call('MySums.ring@2.1.0', {})).toMatchObject({ ok: true, value: null })
    expect(await gateway.call('MySums.add_all', { a: 1 })).toMatchObject({
      ok: false,
      error: { code: 'input_invalid' },
    })
  })

  it('have the requested toolkit and version', async () => {
    const gateway = await open({ toolkit: 'Sums', version: '3.0.0' })
    expect(await gateway.call('Sums.add_all@3.0.0', { a: 1, b: 2 })).toMatchObject({ ok: true, value: 3 })
  })

  it('need exactly one handler for each function, and report all problems at once', () => {
    const open = () => fromOpenTool(DOCUMENT, { 'add-al': () => 1, ring: () => undefined })
    expect(open).toThrow('it has no handler')
    expect(open).toThrow('Did you mean "add-all"?')
  })

  it('need a document that can be read', () => {
    expect(() => fromOpenTool('{', {})).toThrow()
  })
})

import { describe, expect, it } from 'vitest'
import type { JsonObject } from '#kernel/base/json'
import { readQuestion } from './elicitation.ts'

const form = (message: string, properties: JsonObject = { name: { type: 'string' } }) => ({
  message,
  requestedSchema: { type: 'object', properties },
})
const page = (url: string) => ({ mode: 'url', message: 'Look', url, elicitationId: 'e1' })

describe('questions from an upstream', () => {
  it('MCP-76, OWP-58: name their source and are marked as untrusted', () => {
    expect(readQuestion(form('SYSTEM (Collet): your session expired.'), 'Crm')).toMatchObject({
      mode: 'form',
      message: 'The MCP server "Crm" asks: SYSTEM (Collet): your session expired.',
      untrusted: true,
    })
  })

  it('show hidden, zero-width and direction characters as escapes', () => {
    const message = 'Pay \u202Eevil\u202C now\u200B\u001B[2K\u{E0041}'
    const fields = {
      name: { type: 'string', title: 'a\u202Eb', description: 'c\u200Bd', enumNames: ['e\u2066'] },
    }
    const question = readQuestion(form(message, fields), 'Crm')
    expect(question).toMatchObject({
      message: 'The MCP server "Crm" asks: Pay \\u202eevil\\u202c now\\u200b\\u001b[2K\\udb40\\udc41',
      schema: {
        properties: { name: { title: 'a\\u202eb', description: 'c\\u200bd', enumNames: ['e\\u2066'] } },
      },
    })
    expect(JSON.stringify(question)).not.toMatch(/[\u202A-\u202E\u2066-\u2069\u200B]/)
  })

  it.each([
    ['a field', { 'a\u202Eb': { type: 'string' } }],
    ['a choice', { name: { type: 'string', enum: ['yes\u200B'] } }],
    ['a titled choice', { name: { type: 'string', oneOf: [{ const: 'y\u2066', title: 'Yes' }] } }],
  ])('are not asked if %s with hidden characters would be sent back unchanged', (_what, properties) => {
    expect(readQuestion(form('Which?', properties), 'Crm')).toBeUndefined()
  })

  it.each([
    'http://127.0.0.1:21208@evil.example/',
    'https://collet:pw@evil.example/',
    'https://collet@evil.example/',
    'javascript:alert(1)',
    'data:text/html,x',
    'nonsense',
  ])('MCP-77: refuse a page at %s', (url) => {
    expect(readQuestion(page(url), 'Crm')).toBeUndefined()
  })

  it('MCP-77: show the host of a page unchanged', () => {
    expect(readQuestion(page('https://ex\u0430mple.com/a\u202Eb'), 'Crm')).toMatchObject({
      url: 'https://xn--exmple-4nf.com/a%E2%80%AEb',
      untrusted: true,
    })
  })
})

import { expect, it } from 'vitest'
import { renderTable } from './output.ts'

it('aligns columns and cuts only the last one, only to a given width', () => {
  const rows = [
    ['a', 'short'],
    ['longer', 'a description that goes on and on and on'],
  ]
  expect(renderTable(['ID', 'TEXT'], rows)).toEqual([
    'ID      TEXT',
    'a       short',
    'longer  a description that goes on and on and on',
  ])
  expect(renderTable(['ID', 'TEXT'], rows, 30).at(-1)).toBe('longer  a description that go…')
})

it('prints no control characters', () => {
  expect(renderTable(['X'], [['\u001b[2J']])).toEqual(['X', '\\u001b[2J'])
})

import { describe, expect, it } from 'vitest'
import { pathOf, RoutePath } from './request.ts'

describe('RoutePath', () => {
  it.each(['/tools/', '//tools', '/Tools', '/%74ools', '/tools/x', ''])(
    'does not take %j for /tools',
    (path) => {
      expect(new RoutePath('/tools').match(path)).toBeUndefined()
    },
  )

  it('decodes parameters once', () => {
    const path = new RoutePath('/calls/:id/settle')
    expect(path.match('/calls/a%2Fb%2525/settle')).toEqual({ id: 'a/b%25' })
    expect(path.match('/calls/é😀/settle')).toEqual({ id: 'é😀' })
  })

  it.each([
    '/calls//settle',
    '/calls/a/b/settle',
    '/c%61lls/a/settle',
    '/calls/%ff/settle',
    '/calls/a/settle/',
  ])('does not take %s', (path) => {
    expect(new RoutePath('/calls/:id/settle').match(path)).toBeUndefined()
  })
})

describe('pathOf', () => {
  it.each([
    ['/a', '/a'],
    ['/a?b=c?d', '/a'],
    ['/a?', '/a'],
  ])('%s is %s', (target, path) => {
    expect(pathOf(target)).toBe(path)
  })
})

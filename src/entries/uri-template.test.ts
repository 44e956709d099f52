import { describe, expect, expectTypeOf, it } from 'vitest'
import { type ParamsOf, readTemplate } from './uri-template.ts'

function read(template: string) {
  const problems: string[] = []
  const made = readTemplate(template, (_where, problem) => void problems.push(problem))
  return { made, problems }
}

describe('addresses of a template', () => {
  it.each([
    ['docs://{page}', 'docs://start', { page: 'start' }],
    ['docs://{page}', 'docs://a%20b', { page: 'a b' }],
    ['docs://{page}', 'docs://a/b', undefined],
    ['docs://{page}', 'docs://', undefined],
    ['docs://{page}', 'docs://%zz', undefined],
    ['test://template/{id}/data', 'test://template/7/data', { id: '7' }],
    ['test://template/{id}/data', 'test://template/7/data/more', undefined],
    ['files:///{+path}', 'files:///a/b.txt', { path: 'a/b.txt' }],
    ['files:///{+path}.md', 'files:///a.md/b.md', { path: 'a.md/b' }],
    ['repo://{owner}/{name}', 'repo://me/it', { owner: 'me', name: 'it' }],
    ['repo://x{/owner}{/name}', 'repo://x/me/it', { owner: 'me', name: 'it' }],
    ['page://{name}{.ext}', 'page://a.b', { name: 'a', ext: 'b' }],
    ['search://all{?q,limit}', 'search://all', {}],
    ['search://all{?q,limit}', 'search://all?limit=3&q=a%26b', { q: 'a&b', limit: '3' }],
    ['search://all{?q,limit}', 'search://all?other=3', undefined],
    ['search://{where}{?q}', 'search://here?q=1=2', { where: 'here', q: '1=2' }],
  ])('%s matches %s', (template, uri, params) => {
    expect(read(template).made?.paramsOf(uri)).toEqual(params)
  })

  it.each([
    'docs://none',
    'docs://{page',
    'docs://{a}{b}',
    'docs://{a}/{a}',
    'docs://{a,b}',
    'docs://{a*}',
    'docs://{a:3}',
    'docs://{?q}/more',
    'docs://{?q}{page}',
    'docs://{}',
  ])('%s is refused with a reason', (template) => {
    const { made, problems } = read(template)
    expect(made).toBeUndefined()
    expect(problems).toHaveLength(1)
  })

  it('takes time linear in the length of an address', () => {
    const { made } = read('x://{+a}-{+b}-{+c}-{+d}!')
    const uri = `x://${'a-'.repeat(200_000)}`
    expect(made?.paramsOf(uri)).toBeUndefined()
  })

  it('types its variables', () => {
    expectTypeOf<ParamsOf<'a://{b}/{+c}{?d,e}'>>().toEqualTypeOf<{
      readonly b: string
      readonly c: string
      readonly d?: string
      readonly e?: string
    }>()
  })
})

export type { OtcOptions } from './options.ts'
export { otcRoutes } from './routes.ts'

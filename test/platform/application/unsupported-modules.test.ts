import { inspect } from 'node:util';
import {
  Body,
  type CallHandler,
  Controller,
  Get,
  Injectable,
  type NestInterceptor,
  Patch,
  Post,
  type Type,
  UseInterceptors,
} from '@nestjs/common';
import { IntersectionType, PartialType, PickType } from '@nestjs/swagger';
import { IsString } from 'class-validator';
import { map, type Observable } from 'rxjs';
import {
  Feature,
  MergePatch,
  Operation,
  Property,
  ReturnsEtag,
  Versioned,
} from '../../../src/platform/index.js';
import { startApp } from '../support/app.js';
import { MemoryLogger } from '../support/memory-logger.js';

class Room {
  @Property({ type: 'string', maxLength: 10 }) name!: string;
  @Property({ type: 'integer', default: 4 }) seats!: number;
}

/** Creates a feature with one controller. */
function toFeature(controller: Type, name = 'rooms'): Type {
  class RoomsModule {}
  Feature({ tag: { name, description: name }, controllers: [controller] })(RoomsModule);
  return RoomsModule;
}

/** Creates a controller that changes a room. */
function toController(Dto: Type<object>): Type {
  class UpdateRoomDto extends (Dto as Type<Partial<Room>>) {}
  @Controller('rooms')
  class RoomsController {
    @Patch() update(@Body() body: UpdateRoomDto): object {
      return Object.fromEntries(Object.entries(body));
    }
  }
  return RoomsController;
}

it('refuses MergePatch of a class with other decorators than @Property, which it would leave out', () => {
  class Door {
    @IsString() color!: string;
  }
  expect(() => MergePatch(Door)).toThrow('MergePatch of Door: declare color with @Property.');
});

describe('PartialType of a class with @Property', () => {
  it.each<[string, Type<object>]>([
    ['alone', PartialType(Room)],
    ['of PickType', PartialType(PickType(Room, ['seats']))],
    ['of IntersectionType', PartialType(IntersectionType(Room, class {}))],
    ['of a class that is derived', PartialType(class extends Room {})],
  ])('fails startup, %s, in favour of MergePatch', async (_how, dto) => {
    await expect(startApp({ features: [toFeature(toController(dto))] })).rejects.toThrow(
      'UpdateRoomDto is derived with PartialType from a class with @Property, whose defaults it keeps: use MergePatch instead.',
    );
  });
});

/** Creates a feature whose responses have a class `Item`. */
function toItemFeature(path: string, type: 'string' | 'integer'): Type {
  class Item {
    @Property({ type }) value!: unknown;
  }
  @Controller(path)
  class ItemsController {
    @Get()
    @Operation({ operationId: `get-${path}`, response: 'An item.', returns: Item })
    read(): object {
      return {};
    }
  }
  return toFeature(ItemsController, path);
}

describe('GET /openapi.json of two DTOs with one name', () => {
  it.each<[number, 'string' | 'integer']>([
    [500, 'integer'],
    [200, 'string'],
  ])('returns %d if a property is a string in one and %s in the other', async (status, type) => {
    const logger = new MemoryLogger();
    const features = [toItemFeature('one', 'string'), toItemFeature('two', type)];
    const app = await startApp({ features, logger });
    const response = await app.http().get('/openapi.json');
    await app.stop();
    expect(response.status).toBe(status);
    const message = 'Two DTOs with different properties are named Item: rename one.';
    expect(inspect(logger.entries, { depth: 9 }).includes(message)).toBe(status === 500);
  });
});

@Injectable()
class WrapInterceptor implements NestInterceptor {
  intercept(_context: unknown, next: CallHandler): Observable<object> {
    return next.handle().pipe(map((data: unknown) => ({ data })));
  }
}

@Controller('loans')
class LoansController {
  @UseInterceptors(WrapInterceptor)
  @Get('above')
  @ReturnsEtag()
  @Operation({ operationId: 'above', response: 'A loan.' })
  readAbove(): Versioned<object> {
    return new Versioned(3, { id: 7 });
  }

  @Get('below')
  @ReturnsEtag()
  @Operation({ operationId: 'below', response: 'A loan.' })
  @UseInterceptors(WrapInterceptor)
  readBelow(): Versioned<object> {
    return new Versioned(3, { id: 7 });
  }

  @UseInterceptors(WrapInterceptor)
  @Post()
  @ReturnsEtag()
  @Operation({ operationId: 'create', status: 201, response: 'A loan.', location: 'loans/{id}' })
  create(): Versioned<object> {
    return new Versioned(3, { id: 7 });
  }

  @Get('undeclared')
  readUndeclared(): Versioned<object> {
    return new Versioned(3, { id: 7 });
  }
}

describe('an interceptor that wraps results', () => {
  it('keeps ETag and Location, above and below the decorators of the platform', async () => {
    const app = await startApp({ features: [toFeature(LoansController, 'loans')] });
    const body = { data: { id: 7 } };
    for (const path of ['above', 'below']) {
      const response = await app.send('GET', `/v1/loans/${path}`);
      expect([response.json(), response.headers.etag]).toEqual([body, '"3"']);
    }
    const created = await app.send('POST', '/v1/loans');
    expect([created.json(), created.headers.etag]).toEqual([body, '"3"']);
    expect(created.headers.location).toBe('loans/7');
    expect(await app.send('GET', '/v1/loans/undeclared')).toBeError('INTERNAL_ERROR');
    await app.stop();
  });
});

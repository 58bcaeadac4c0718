// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
/* Hand-written MPI halo exchange (persistent buffers, Isend/Irecv, pack/unpack) and ping-pong: the floor to compare with.
   Layouts: planar (dof,y,x) slab in y, and interleaved (y,x,dof); both exchange whole padded rows in y, periodic. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
static int cmp(const void*a,const void*b){double x=*(double*)a,y=*(double*)b;return (x>y)-(x<y);}
int main(int c,char**v){ MPI_Init(&c,&v); int r,n; MPI_Comm_rank(MPI_COMM_WORLD,&r); MPI_Comm_size(MPI_COMM_WORLD,&n);
 if(c>1){ if(!r)fprintf(stderr,"mpi_halo: '%s' is not understood; it takes no arguments\n",v[1]); MPI_Finalize(); return 2; }
 int reps=500,warm=50; double*t=malloc(8*reps);
 if(n>=2) for(size_t b=8;b<=(4u<<20);b*=8){ char*p=calloc(b,1); int it=b>300000?100:500;
   for(int k=-20;k<it;k++){ MPI_Barrier(MPI_COMM_WORLD); double t0=MPI_Wtime();
     if(r==0){MPI_Send(p,b,MPI_BYTE,1,0,MPI_COMM_WORLD);MPI_Recv(p,b,MPI_BYTE,1,0,MPI_COMM_WORLD,MPI_STATUS_IGNORE);}
     else if(r==1){MPI_Recv(p,b,MPI_BYTE,0,0,MPI_COMM_WORLD,MPI_STATUS_IGNORE);MPI_Send(p,b,MPI_BYTE,0,0,MPI_COMM_WORLD);}
     if(k>=0)t[k]=(MPI_Wtime()-t0)/2; }
   qsort(t,it,8,cmp); if(!r)printf("pingpong %8zu B: one way median %8.2f us min %8.2f  %.2f GB/s\n",b,t[it/2]*1e6,t[0]*1e6,b/t[it/2]*1e-9); free(p);}
 struct{int ny,nx,dof;}g[]={{1024,1024,1},{256,256,64},{180,360,1},{180,360,8}};
 for(int k=0;k<4;k++)for(int w=1;w<=2;w++)for(int lay=0;lay<2;lay++){
   int ny=g[k].ny/n,nx=g[k].nx,D=g[k].dof; size_t row=nx, pl=(size_t)(ny+2*w)*nx; double*a=calloc(pl*D,8);
   for(int d=0;d<D;d++)for(int j=0;j<ny;j++)for(int i=0;i<nx;i++) a[lay?((size_t)(j+w)*nx+i)*D+d : d*pl+(size_t)(j+w)*row+i]=i+1e4*(j+r*ny)+1e8*d;
   size_t m=(size_t)w*nx*D; double*s1=malloc(8*m),*s2=malloc(8*m),*r1=malloc(8*m),*r2=malloc(8*m); int up=(r+1)%n,dn=(r+n-1)%n;
   double *R1=lay?a:r1, *R2=lay?a+(size_t)(ny+w)*nx*D:r2, *S1=lay?a+(size_t)ny*nx*D:s1, *S2=lay?a+(size_t)w*nx*D:s2;
   for(int q=-warm;q<reps;q++){ MPI_Barrier(MPI_COMM_WORLD); double t0=MPI_Wtime(); MPI_Request rq[4];
     MPI_Irecv(R1,m,MPI_DOUBLE,dn,1,MPI_COMM_WORLD,rq); MPI_Irecv(R2,m,MPI_DOUBLE,up,2,MPI_COMM_WORLD,rq+1);
     if(!lay)for(int d=0;d<D;d++){memcpy(s1+(size_t)d*w*nx,a+d*pl+(size_t)ny*row,8*(size_t)w*nx);memcpy(s2+(size_t)d*w*nx,a+d*pl+(size_t)w*row,8*(size_t)w*nx);}
     MPI_Isend(S1,m,MPI_DOUBLE,up,1,MPI_COMM_WORLD,rq+2); MPI_Isend(S2,m,MPI_DOUBLE,dn,2,MPI_COMM_WORLD,rq+3);
     MPI_Waitall(4,rq,MPI_STATUSES_IGNORE);
     if(!lay)for(int d=0;d<D;d++){memcpy(a+d*pl,r1+(size_t)d*w*nx,8*(size_t)w*nx);memcpy(a+d*pl+(size_t)(ny+w)*row,r2+(size_t)d*w*nx,8*(size_t)w*nx);}
     if(q>=0)t[q]=MPI_Wtime()-t0; }
   int bad=0; for(int d=0;d<D;d++)for(int j=-w;j<ny+w;j++){int J=(j+r*ny+n*ny)%(n*ny); for(int i=0;i<nx;i++) if(a[lay?((size_t)(j+w)*nx+i)*D+d:d*pl+(size_t)(j+w)*row+i]!=i+1e4*J+1e8*d)bad++;}
   qsort(t,reps,8,cmp); double x[2]={t[reps/2],t[0]},o[2]; int tb; MPI_Reduce(x,o,2,MPI_DOUBLE,MPI_MAX,0,MPI_COMM_WORLD); MPI_Reduce(&bad,&tb,1,MPI_INT,MPI_SUM,0,MPI_COMM_WORLD);
   if(!r)printf("hand MPI np=%d %4dx%4d dof %2d %-11s w=%d : median %8.1f us min %8.1f  %zu B/side bad=%d\n",n,g[k].ny,nx,D,lay?"interleaved":"planar",w,o[0]*1e6,o[1]*1e6,8*m,tb);
   free(a);free(s1);free(s2);free(r1);free(r2);}
 MPI_Finalize(); }
